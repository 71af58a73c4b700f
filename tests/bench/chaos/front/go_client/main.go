// A client of the AMQP front: a publisher with confirms and a consumer with manual acks. Both go on
// after every failure, with the next of the fronts, until standard input ends. What happened to them
// is in the journal, one JSON object a line; see journal.py.
//
//	go_client JOURNAL SECONDS_BETWEEN_PUBLISHES URL...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	queue   = "work"
	window  = 100 // publishes that wait for their confirms
	portion = 10  // deliveries that are settled together
	patient = 120 * time.Second
)

type entry struct {
	At          float64 `json:"at"`
	Connection  string  `json:"connection"`
	Kind        string  `json:"kind"`
	ID          string  `json:"id,omitempty"`
	Redelivered bool    `json:"redelivered,omitempty"`
}

type client struct {
	urls     []string
	pause    time.Duration
	journal  *json.Encoder
	lock     sync.Mutex
	stopping atomic.Bool
	opened   int
	sent     int
}

func main() {
	file, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		panic(err)
	}
	c := &client{urls: os.Args[3:], pause: time.Duration(seconds * 1e9), journal: json.NewEncoder(file)}
	var done sync.WaitGroup
	for name, session := range map[string]func(string, *amqp.Connection) error{
		"publisher": c.publish, "consumer": c.consume,
	} {
		done.Go(func() { c.repeat(name, session) })
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	c.stopping.Store(true)
	done.Wait()
	if err := file.Close(); err != nil {
		panic(err)
	}
}

func (c *client) note(e entry) {
	e.At = float64(time.Now().UnixMicro()) / 1e6
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.journal.Encode(e); err != nil {
		panic(err)
	}
}

// repeat plays sessions, each on a connection of its own.
func (c *client) repeat(name string, session func(string, *amqp.Connection) error) {
	for turn := 0; !c.stopping.Load(); turn++ {
		url := c.urls[turn%len(c.urls)]
		config := amqp.Config{Heartbeat: patient, Dial: amqp.DefaultDial(3 * time.Second)}
		connection, err := amqp.DialConfig(url, config)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c.lock.Lock()
		c.opened++
		address := strings.Split(strings.Split(url, "@")[1], "/")[0]
		id := fmt.Sprintf("%s/go-%s-%d", address, name, c.opened)
		c.lock.Unlock()
		c.note(entry{Connection: id, Kind: "opened"})
		err = session(id, connection)
		var refusal *amqp.Error
		if errors.As(err, &refusal) && refusal.Server {
			c.note(entry{Connection: id, Kind: "closed", ID: strconv.Itoa(refusal.Code) + " " + refusal.Reason})
		}
		_ = connection.Close()
	}
}

type published struct {
	id        string
	confirmed *amqp.DeferredConfirmation
}

func (c *client) publish(id string, connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	ended := connection.NotifyClose(make(chan *amqp.Error, 1))
	waiting := make(chan published, window)
	var told sync.WaitGroup
	told.Go(func() {
		for each := range waiting {
			if each.confirmed.Wait() {
				c.note(entry{Connection: id, Kind: "confirmed", ID: each.id})
			}
		}
	})
	for !c.stopping.Load() && err == nil {
		c.sent++
		name := fmt.Sprintf("go-%d", c.sent)
		c.note(entry{Connection: id, Kind: "published", ID: name})
		var confirmed *amqp.DeferredConfirmation
		confirmed, err = channel.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: name, Body: []byte(strings.Repeat(name, 20)),
		})
		if err == nil {
			waiting <- published{name, confirmed}
			time.Sleep(c.pause)
		}
	}
	close(waiting)
	told.Wait()
	return reason(ended, err)
}

// reason is why the server closed the connection, if it did.
func reason(ended chan *amqp.Error, err error) error {
	select {
	case closed := <-ended:
		if closed != nil {
			return closed
		}
	default:
	}
	return err
}

func (c *client) consume(id string, connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	ended := connection.NotifyClose(make(chan *amqp.Error, 1))
	if err := channel.Qos(5*portion, 0, false); err != nil {
		return reason(ended, err)
	}
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return reason(ended, err)
	}
	idle := time.NewTicker(500 * time.Millisecond)
	defer idle.Stop()
	var taken []amqp.Delivery
	for !c.stopping.Load() {
		select {
		case delivery, more := <-deliveries:
			if !more {
				return reason(ended, nil)
			}
			c.note(entry{Connection: id, Kind: "delivered", ID: delivery.MessageId, Redelivered: delivery.Redelivered})
			taken = append(taken, delivery)
			if len(taken) < portion {
				continue
			}
		case <-idle.C:
		}
		if err := c.settle(id, channel, taken); err != nil {
			return reason(ended, err)
		}
		taken = nil
	}
	return c.settle(id, channel, taken)
}

// settle rejects some deliveries, returns some, and acks the rest with one method. Then it asks
// something: the answer says that the settlements have happened.
func (c *client) settle(id string, channel *amqp.Channel, taken []amqp.Delivery) error {
	var acked []amqp.Delivery
	kinds := make([]string, len(taken))
	for place, delivery := range taken {
		var err error
		digit := delivery.MessageId[len(delivery.MessageId)-1]
		switch {
		case digit == '3':
			kinds[place] = "rejected"
			err = delivery.Reject(false)
		case digit == '7' && !delivery.Redelivered:
			kinds[place] = "requeued"
			err = delivery.Nack(false, true)
		default:
			kinds[place] = "acked"
			acked = append(acked, delivery)
		}
		if err != nil {
			return err
		}
	}
	if len(acked) > 0 {
		if err := acked[len(acked)-1].Ack(true); err != nil {
			return err
		}
	}
	if len(taken) > 0 {
		if _, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
			return err
		}
	}
	for place, delivery := range taken {
		c.note(entry{Connection: id, Kind: kinds[place], ID: delivery.MessageId})
	}
	return nil
}
