module example.com/adopted

go 1.24.0
