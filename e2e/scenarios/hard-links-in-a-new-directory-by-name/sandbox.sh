mkdir d; echo x > d/x; ln d/x d/y
