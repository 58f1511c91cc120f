module carillon.invalid/carillon

go 1.21
