# A sandbox cannot hide a change by ignoring it.
echo 'hidden*' > .gitignore
echo x > hidden
echo F > f
