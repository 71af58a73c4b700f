"""`dlx bench chaos --front`: fronts, job and Kafka are killed, and the clients' word is checked.

fronts.py         what runs: Kafka, the job, a leading front and a standby
strikes.py        what is killed or put to sleep, and when
pika_client.py    a client in Python, go_client one in Go; each keeps a journal
journal.py        what clients saw
checks.py         the journals against the tables
run.py            all of it
"""
