rm .claude/settings.json
