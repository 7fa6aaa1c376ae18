git config --unset core.fsmonitor || true
