rm -r target src.o
