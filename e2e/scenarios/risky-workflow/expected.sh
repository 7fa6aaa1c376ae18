rm .github/workflows/ci.yml
