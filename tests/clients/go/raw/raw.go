// Package raw sends and receives gRPC messages as they are, so that nothing has to be generated.
package raw

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Codec takes `[]byte`, `*[]byte` and what was generated.
type Codec struct{}

func (Codec) Marshal(value interface{}) ([]byte, error) {
	switch message := value.(type) {
	case []byte:
		return message, nil
	case *[]byte:
		return *message, nil
	case proto.Message:
		return proto.Marshal(message)
	}
	return nil, fmt.Errorf("not bytes: %T", value)
}

func (Codec) Unmarshal(data []byte, value interface{}) error {
	switch message := value.(type) {
	case *[]byte:
		*message = append((*message)[:0], data...)
		return nil
	case proto.Message:
		return proto.Unmarshal(data, message)
	}
	return fmt.Errorf("not bytes: %T", value)
}

func (Codec) Name() string { return "raw" }
