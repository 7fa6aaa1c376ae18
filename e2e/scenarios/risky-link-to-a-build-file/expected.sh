rm log notes
