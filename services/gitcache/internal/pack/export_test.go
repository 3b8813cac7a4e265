package pack

var CheckWithin = checkWithin //nolint:gochecknoglobals // for tests
