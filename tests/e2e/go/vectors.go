// vectors.go - plays the table of requests and answers that all clients share, by a Redis client of Go.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"
)

type object = map[string]interface{}

// words of the command that asks the same.
func words(verb string, request object) []interface{} {
	var out []interface{}
	if request["window_ms"] != nil {
		out = []interface{}{"WEIR.LIMIT", request["key"], request["algorithm"], request["limit"], request["window_ms"]}
	} else if request["reservation"] != nil {
		out = []interface{}{"WEIR." + verb, request["reservation"]}
	} else {
		policies, _ := request["policies"].([]interface{})
		if policies == nil {
			policies = []interface{}{request["policy"]}
		}
		out = []interface{}{"WEIR." + verb, policies[0]}
		if attributes, has := request["attributes"].(object); has {
			for name, value := range attributes {
				out = append(out, fmt.Sprint(name, "=", value))
			}
		} else {
			out = append(out, request["key"])
		}
		for _, policy := range policies[1:] {
			out = append(out, "POLICY", policy)
		}
	}
	for member, word := range map[string]string{"cost": "COST", "plan": "PLAN", "name": "NAME", "id": "ID", "ttl_ms": "TTL",
		"start": "START", "block_for_ms": "BLOCK_FOR"} {
		if request[member] != nil {
			out = append(out, word, request[member])
		}
	}
	if costs, has := request["costs"].(object); has {
		for name, amount := range costs {
			out = append(out, "COST", name, amount)
		}
	}
	return append(out, "FULL")
}

// named makes an object of names and values in turn.
func named(values []interface{}) object {
	out := object{}
	for i := 0; i+1 < len(values); i += 2 {
		name := string(values[i].([]byte))
		switch value := values[i+1].(type) {
		case []byte:
			out[name] = string(value)
		case []interface{}:
			rules := []interface{}{}
			for _, rule := range value {
				rules = append(rules, named(rule.([]interface{})))
			}
			out[name] = rules
		default:
			out[name] = value
		}
	}
	return out
}

// fits: what is wanted must be there; more may be. Flags are 1 or 0.
func fits(want, got interface{}) bool {
	switch want := want.(type) {
	case object:
		has, ok := got.(object)
		for name, value := range want {
			ok = ok && fits(value, has[name])
		}
		return ok
	case []interface{}:
		has, ok := got.([]interface{})
		ok = ok && len(has) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = fits(want[i], has[i])
		}
		return ok
	case bool:
		return (got == int64(1)) == want
	case json.Number:
		return fmt.Sprint(got) == want.String()
	case string:
		number, is := got.(int64)
		return want == got || want == "positive" && is && number > 0
	}
	return want == nil && got == nil
}

func main() {
	var table struct {
		Vectors []struct {
			Name, Verb, Error string
			Request, Answer   object
		}
	}
	file, err := os.Open("tests/vectors/clients.json")
	if err != nil {
		log.Fatal(err)
	}
	decoder := json.NewDecoder(file)
	decoder.UseNumber()
	if err := decoder.Decode(&table); err != nil {
		log.Fatal(err)
	}
	c, err := redis.Dial("tcp", os.Getenv("WEIR_ADDRESS"))
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range table.Vectors {
		all := words(v.Verb, v.Request)
		values, err := redis.Values(c.Do(all[0].(string), all[1:]...))
		if v.Error != "" {
			if err == nil || strings.ToLower(strings.SplitN(err.Error(), " ", 2)[0]) != v.Error {
				log.Fatal(v.Name, ": ", err)
			}
		} else if err != nil || !fits(v.Answer, named(values)) {
			log.Fatal(v.Name, ": ", err, named(values))
		}
	}
	fmt.Println(len(table.Vectors))
}
