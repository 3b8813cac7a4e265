package reach

// RetryAfter is for tests.
var RetryAfter = retryAfter
