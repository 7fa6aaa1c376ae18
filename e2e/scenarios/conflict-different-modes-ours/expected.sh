echo G > g
