ln -sfn b link
