module process-go

go 1.24.0
