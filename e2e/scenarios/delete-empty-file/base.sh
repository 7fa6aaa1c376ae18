: > f
: > keep
