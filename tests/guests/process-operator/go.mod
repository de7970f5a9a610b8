module operetta.dev/guests/process-operator

go 1.24
