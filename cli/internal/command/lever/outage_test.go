package lever_test

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
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

func TestTestsThatAreWaitedForOutlastARestartOfTheHub(t *testing.T) {
	t.Parallel()
	const asking = `RunTests {"service":"shop-a"}` + "\n"
	const ask = `GetTestRun {"service":"shop-a","id":"asked-1"}` + "\n"
	const look = `GetService {"name":"shop-a"}` + "\n"
	const note = "run asked-1 of service shop-a is asked for\n"
	const passed = "run asked-1 passed after 1m0s, 3m ago, asked for, commit fedcba98\n\n" +
		"TEST              OUTCOME  TOOK  ATTEMPTS  CASES  MESSAGE\n" +
		"shop/smoke (Job)  passed   1m0s  1         -      -\n"
	service := clitest.WellService()
	service.Spec.TestRequest = &deliveryv1.TestRequest{Id: "asked-1"}
	begun := hubtest.Returns[consolev1.RunTestsRequest](
		consolev1connect.TestServiceRunTestsProcedure, &consolev1.RunTestsResponse{Service: service})
	run := &deliveryv1.TestRun{
		Id: "asked-1", Cause: deliveryv1.TestCause_TEST_CAUSE_REQUEST, Commit: "fedcba9876",
		Outcome:   deliveryv1.TestOutcome_TEST_OUTCOME_PASSED,
		StartTime: clitest.Before(3 * time.Minute), EndTime: clitest.Before(2 * time.Minute),
		Results: []*deliveryv1.TestResult{{
			Kind: "Job", Namespace: "shop", Name: "smoke", Attempts: 1,
			Outcome:   deliveryv1.TestOutcome_TEST_OUTCOME_PASSED,
			StartTime: clitest.Before(3 * time.Minute), EndTime: clitest.Before(2 * time.Minute),
		}},
	}
	ends := func(fails ...error) hubtest.Answer {
		return hubtest.On(consolev1connect.TestServiceGetTestRunProcedure,
			func(*consolev1.GetTestRunRequest) (*consolev1.GetTestRunResponse, error) {
				if len(fails) > 0 {
					err := fails[0]
					fails = fails[1:]
					return nil, err
				}
				return &consolev1.GetTestRunResponse{Run: run}, nil
			})
	}
	unknown := connect.NewError(connect.CodeNotFound, errors.New("no such run"))
	const progress = "shop/smoke (Job) passed after 1m0s\n"
	const restart = "the hub is asked again: the console stops: dial again\n"
	hubtest.Run(t, map[string]hubtest.Case{
		"the console stops, twice": {
			Line: "test service shop-a --wait", Hub: []hubtest.Answer{begun, ends(errStops, errStops)},
			Asked: asking + ask + ask + ask, Stdout: passed, Stderr: note + restart + progress,
		},
		"the connection breaks": {
			Line: "test service shop-a --wait", Hub: []hubtest.Answer{begun, ends(http.ErrAbortHandler)},
			Asked: asking + ask + ask, Stdout: passed,
			Stderr: note + "the hub is asked again: HUB can't be reached: stream error: stream ID 5; INTERNAL_ERROR; " +
				"received from peer. Is the hub running there (`fairlead up`)?\n" + progress,
		},
		"before the agent has told of the run": {
			Line: "test service shop-a --wait", Hub: []hubtest.Answer{begun, ends(unknown), failing(errStops, 1)},
			Asked: asking + ask + look + ask, Stdout: passed, Stderr: note + restart + progress,
		},
		"another error": {
			Line: "test service shop-a --wait", Asked: asking + ask, Stderr: note, Err: "it is broken",
			Hub: []hubtest.Answer{begun, ends(connect.NewError(connect.CodeInternal, errors.New("it is broken")))},
		},
		"for longer than --timeout": {
			Line: "test service shop-a --wait --timeout 100ms", Hub: []hubtest.Answer{begun, ends(errStops)},
			Asked: asking + ask, Stderr: note + restart,
			Err: `service "shop-a": the agent has not told of it after 100ms; run asked-1 goes on: ` +
				"`fairlead test results service shop-a --run asked-1` shows it",
		},
	})
}
