package lever_test

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// errStops is what a console says that stops.
var errStops = connect.NewError(connect.CodeUnavailable, errors.New("the console stops: dial again"))

// failing answers with an error to the questions of these numbers, the first of which is 1, and then with the well
// service.
func failing(fails error, numbers ...int32) hubtest.Answer {
	var asked atomic.Int32
	answer := func(*consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
		if slices.Contains(numbers, asked.Add(1)) {
			return nil, fails
		}
		return &consolev1.GetServiceResponse{Service: clitest.WellService()}, nil
	}
	return hubtest.On(consolev1connect.ServiceServiceGetServiceProcedure, answer)
}

func TestAWaitOutlastsARestartOfTheHub(t *testing.T) {
	t.Parallel()
	const get, sync = `GetService {"name":"shop-a"}` + "\n", `RequestSync {"name":"shop-a"}` + "\n"
	const well = "service/shop-a: fedcba98 is applied. Healthy\n"
	pending := clitest.WellService()
	pending.Status.State = consolev1.ServiceState_SERVICE_STATE_PENDING
	synced := hubtest.Returns[consolev1.RequestSyncRequest](
		requestSync, &consolev1.RequestSyncResponse{Service: pending})
	hubtest.Run(t, map[string]hubtest.Case{
		"the console stops": {
			Line: "wait service shop-a", Hub: []hubtest.Answer{failing(errStops, 1)}, Asked: get + get, Stdout: well,
			Stderr: "the hub is asked again: the console stops: dial again\n",
		},
		"twice, and a person is told once": {
			Line: "wait service shop-a", Hub: []hubtest.Answer{failing(errStops, 1, 2)},
			Asked: get + get + get, Stdout: well,
			Stderr: "the hub is asked again: the console stops: dial again\n",
		},
		"the connection breaks": {
			Line: "sync service shop-a --wait", Hub: []hubtest.Answer{failing(http.ErrAbortHandler, 2), synced},
			Asked:  get + sync + get + get,
			Stdout: "service/shop-a follows main: Healthy\n",
			Stderr: "the hub is asked again: HUB can't be reached: stream error: stream ID 7; INTERNAL_ERROR; " +
				"received from peer. Is the hub running there (`fairlead up`)?\n",
		},
		"there may be no hub": {
			Line: "wait service shop-a", Hub: []hubtest.Answer{failing(http.ErrAbortHandler, 1)}, Asked: get,
			Err: "HUB can't be reached: stream error: stream ID 3; INTERNAL_ERROR; " +
				"received from peer. Is the hub running there (`fairlead up`)?",
		},
		"for longer than --timeout": {
			Line: "wait service shop-a --timeout 300ms", Hub: []hubtest.Answer{failing(errStops, 1)}, Asked: get,
			Stderr: "the hub is asked again: the console stops: dial again\n",
			Err:    "the console stops: dial again",
		},
		"another error": {
			Line: "wait service shop-a", Asked: get, Err: "it is broken",
			Hub: []hubtest.Answer{failing(connect.NewError(connect.CodeInternal, errors.New("it is broken")), 1)},
		},
		"of a sync": {
			Line: "sync service shop-a --wait", Hub: []hubtest.Answer{failing(errStops, 2), synced},
			Asked:  get + sync + get + get,
			Stdout: "service/shop-a follows main: Healthy\n",
			Stderr: "the hub is asked again: the console stops: dial again\n",
		},
	})
}
