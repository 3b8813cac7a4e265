module fairlead.dev/services/console

go 1.26.0

require (
	fairlead.dev/gen v0.0.0
	fairlead.dev/platform v0.0.0
)

replace (
	fairlead.dev/gen => ../../gen
	fairlead.dev/platform => ../../platform
)
