echo "on: push" > .github/workflows/ci.yml
echo F > f
