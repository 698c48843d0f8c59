// ask.go - calls by gRPC with grpc-go, one a line, as ask.py has it; or many, as fast as is asked for.
//
//	ask ADDRESS DESCRIPTORS
//	ask ADDRESS DESCRIPTORS CALL CONNECTIONS RATE SECONDS
//
// The second form sends CALL, spread over CONNECTIONS, RATE times a second, and prints how many were answered with
// what: {"codes": {"0": …}, "outcomes": {"OK": …, "OVER_LIMIT": …}, "slowest_ms": …, "late": […], "missed": […]}.
// `late` is when it sent calls more than 5 ms too late, as this program itself had no processor; `missed` is when it
// sent those that have no answer. When a fifth is sent, it says "asking" on a line of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const patience = 30 * time.Second

type call struct {
	Method    string            `json:"method"`
	Request   json.RawMessage   `json:"request"`
	Metadata  map[string]string `json:"metadata"`
	TimeoutMs int               `json:"timeout_ms"`
}

type answer struct {
	Code     int               `json:"code"`
	Message  string            `json:"message"`
	Response json.RawMessage   `json:"response"`
	Trailers map[string]string `json:"trailers"`
}

// The one of grpc-go 1.33 knows no messages whose type is known only at run time.
type codec struct{}

func (codec) Marshal(v interface{}) ([]byte, error)      { return proto.Marshal(v.(proto.Message)) }
func (codec) Unmarshal(data []byte, v interface{}) error { return proto.Unmarshal(data, v.(proto.Message)) }
func (codec) Name() string                               { return "proto" }

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(path string) *protoregistry.Files {
	data, err := os.ReadFile(path)
	fail(err)
	set := &descriptorpb.FileDescriptorSet{}
	fail(proto.Unmarshal(data, set))
	files, err := protodesc.NewFiles(set)
	fail(err)
	return files
}

// The messages of a method; of one that is not known, any: the server is to say so.
func messages(files *protoregistry.Files, method string) (asked, told *dynamicpb.Message) {
	name := strings.Replace(method, "/", ".", 1)
	if found, err := files.FindDescriptorByName(protoreflect.FullName(name)); err == nil {
		m := found.(protoreflect.MethodDescriptor)
		return dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	}
	found, err := files.FindDescriptorByName("grpc.health.v1.HealthCheckRequest")
	fail(err)
	m := found.(protoreflect.MessageDescriptor)
	return dynamicpb.NewMessage(m), dynamicpb.NewMessage(m)
}

func deadline(c *call) time.Duration {
	if c.TimeoutMs > 0 {
		return time.Duration(c.TimeoutMs) * time.Millisecond
	}
	return patience
}

func ask(conn *grpc.ClientConn, files *protoregistry.Files, c *call) answer {
	asked, told := messages(files, c.Method)
	if len(c.Request) > 0 {
		fail(protojson.Unmarshal(c.Request, asked))
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline(c))
	defer cancel()
	trailer := metadata.MD{}
	err := conn.Invoke(metadata.NewOutgoingContext(ctx, metadata.New(c.Metadata)), "/"+c.Method, asked, told,
		grpc.Trailer(&trailer))
	out := answer{Code: int(status.Code(err)), Response: json.RawMessage("{}"), Trailers: map[string]string{}}
	if err != nil {
		out.Message = status.Convert(err).Message()
	} else {
		out.Response, err = protojson.Marshal(told)
		fail(err)
	}
	for key, values := range trailer {
		out.Trailers[key] = values[0]
	}
	return out
}

func dial(address string) *grpc.ClientConn {
	conn, err := grpc.Dial(address, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	fail(err)
	return conn
}

func askLines(conn *grpc.ClientConn, files *protoregistry.Files) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		c := call{}
		fail(json.Unmarshal(lines.Bytes(), &c))
		line, err := json.Marshal(ask(conn, files, &c))
		fail(err)
		fmt.Println(string(line))
	}
}

type summary struct {
	Codes     map[string]int `json:"codes"`
	Outcomes  map[string]int `json:"outcomes"`
	SlowestMs float64        `json:"slowest_ms"`
	Late      []float64      `json:"late"`
	Missed    []float64      `json:"missed"`
}

func askMany(address string, files *protoregistry.Files, words []string) {
	c := call{}
	fail(json.Unmarshal([]byte(words[0]), &c))
	numbers := make([]int, 3)
	for i := range numbers {
		number, err := strconv.Atoi(words[1+i])
		fail(err)
		numbers[i] = number
	}
	conns := make([]*grpc.ClientConn, numbers[0])
	for i := range conns {
		conns[i] = dial(address)
	}
	asked, _ := messages(files, c.Method)
	fail(protojson.Unmarshal(c.Request, asked))
	sum := summary{Codes: map[string]int{}, Outcomes: map[string]int{}, Late: []float64{}, Missed: []float64{}}
	var lock sync.Mutex
	var all sync.WaitGroup
	began, calls := time.Now(), numbers[1]*numbers[2]
	for i := 0; i < calls; i++ {
		if i == calls/5 {
			fmt.Println("asking")
		}
		due := began.Add(time.Duration(i) * time.Second / time.Duration(numbers[1]))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		all.Add(1)
		go func(conn *grpc.ClientConn) {
			defer all.Done()
			_, told := messages(files, c.Method)
			late := time.Since(due) > 5*time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(), deadline(&c))
			defer cancel()
			start := time.Now()
			err := conn.Invoke(ctx, "/"+c.Method, asked, told)
			took := time.Since(start).Seconds() * 1000
			overall := told.Get(told.Descriptor().Fields().ByNumber(1)).Enum()
			lock.Lock()
			defer lock.Unlock()
			sum.Codes[strconv.Itoa(int(status.Code(err)))]++
			if err == nil {
				sum.Outcomes[[]string{"UNKNOWN", "OK", "OVER_LIMIT"}[overall]]++
			} else {
				sum.Missed = append(sum.Missed, float64(start.UnixMicro())/1e6)
			}
			if late {
				sum.Late = append(sum.Late, float64(start.UnixMicro())/1e6)
			}
			if took > sum.SlowestMs {
				sum.SlowestMs = took
			}
		}(conns[i%len(conns)])
	}
	all.Wait()
	line, err := json.Marshal(sum)
	fail(err)
	fmt.Println(string(line))
}

func main() {
	files := read(os.Args[2])
	if len(os.Args) > 3 {
		askMany(os.Args[1], files, os.Args[3:])
	} else {
		askLines(dial(os.Args[1]), files)
	}
}
