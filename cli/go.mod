module fairlead.dev/cli

go 1.26.0

require (
	fairlead.dev/gen v0.0.0
	fairlead.dev/platform v0.0.0
	fairlead.dev/services/console v0.0.0
	fairlead.dev/services/gitcache v0.0.0
	fairlead.dev/services/distributor v0.0.0
	fairlead.dev/services/tunnel v0.0.0
)

replace (
	fairlead.dev/gen => ../gen
	fairlead.dev/platform => ../platform
	fairlead.dev/services/console => ../services/console
	fairlead.dev/services/gitcache => ../services/gitcache
	fairlead.dev/services/distributor => ../services/distributor
	fairlead.dev/services/tunnel => ../services/tunnel
)
