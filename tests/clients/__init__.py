"""The programs on the pages of docs/clients/, run with the client library that each page is about.

    programs.py  which page has which program, and what runs it
    running.py   one program against `dlx amqp --memory`, its clock in the program's hand

`python -m tests.clients pika bunny` runs some; without names, all.
"""
