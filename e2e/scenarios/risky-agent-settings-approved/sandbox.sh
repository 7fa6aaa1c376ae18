echo "{}" > .claude/settings.json
echo F > f
