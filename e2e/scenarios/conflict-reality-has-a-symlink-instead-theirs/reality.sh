ln -sfn other f
