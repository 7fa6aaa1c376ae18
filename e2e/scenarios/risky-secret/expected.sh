rm id_ed25519
