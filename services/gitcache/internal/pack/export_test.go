package pack

var CheckWithin = checkWithin
