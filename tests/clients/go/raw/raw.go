// Package raw sends and receives gRPC messages as they are, so that nothing has to be generated.
package raw

import "fmt"

// Codec takes `[]byte` and `*[]byte`.
type Codec struct{}

func (Codec) Marshal(value interface{}) ([]byte, error) {
	switch message := value.(type) {
	case []byte:
		return message, nil
	case *[]byte:
		return *message, nil
	}
	return nil, fmt.Errorf("not bytes: %T", value)
}

func (Codec) Unmarshal(data []byte, value interface{}) error {
	message, ok := value.(*[]byte)
	if !ok {
		return fmt.Errorf("not bytes: %T", value)
	}
	*message = append((*message)[:0], data...)
	return nil
}

func (Codec) Name() string { return "raw" }
