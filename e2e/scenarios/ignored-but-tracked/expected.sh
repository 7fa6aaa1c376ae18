rm target/x
