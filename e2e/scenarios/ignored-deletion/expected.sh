mkdir target
echo built > target/app
