rm pipe
