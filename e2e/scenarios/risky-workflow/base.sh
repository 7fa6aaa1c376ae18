mkdir -p .github/workflows
echo f > f
