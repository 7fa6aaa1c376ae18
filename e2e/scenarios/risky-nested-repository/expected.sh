rm -r vendor/lib/.git
