rm link
