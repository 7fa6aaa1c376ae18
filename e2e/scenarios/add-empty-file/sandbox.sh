: > empty
