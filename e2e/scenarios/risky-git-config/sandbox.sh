git config core.fsmonitor "touch owned"
echo F > f
