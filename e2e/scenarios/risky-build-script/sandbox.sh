echo "fn main() {}" > build.rs
echo F > f
