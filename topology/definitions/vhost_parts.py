"""What of a definitions document is for one vhost."""

from collections.abc import Mapping


def part_of(document: Mapping[str, object], vhost: str, *, single: bool) -> dict[str, object]:
    """What of a document is for one vhost; members that belong to no vhost are kept.

    Args:
        single: the document is of one vhost, whose objects do not name it.
    """
    part: dict[str, object] = {}
    for member, value in document.items():
        if member == "vhosts" or not isinstance(value, list):
            part[member] = value
            continue
        part[member] = [
            item
            for item in value
            if not isinstance(item, dict) or item.get("vhost", vhost) == vhost or single
        ]
    if not single:
        listed = document.get("vhosts")
        assert isinstance(listed, list), "a document that lists vhosts"
        part["vhosts"] = [
            item for item in listed if isinstance(item, dict) and item.get("name") == vhost
        ]
    return part
