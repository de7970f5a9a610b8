module bench-go

go 1.26.0

require operetta.dev/sdk-go v0.1.0

replace operetta.dev/sdk-go => ../../../plugins/sdk-go
