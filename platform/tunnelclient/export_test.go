package tunnelclient

// RetryAfter is for tests.
var RetryAfter = retryAfter
