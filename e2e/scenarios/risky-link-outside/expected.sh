rm passwords
