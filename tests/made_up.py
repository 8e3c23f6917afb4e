"""Made-up data sets in every official layout, and where the real ones may lie."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

REAL = Path(os.environ.get("GRAPHBANDIT_DATA") or Path(__file__).parents[2] / "shared" / "data")

TAGGED = (
    "8\t7\t1\t1\t1\t2010\t0\t0\t0\n8\t7\t2\t1\t1\t2010\t0\t0\t0\n9\t7\t1\t1\t1\t2010\t0\t0\t0\n9\t5\t2\t1\t1\t2010\t0\t0\t0\n"
)

# name: (archive, folder inside it, files)
LAYOUTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "movielens-100k": (
        "ml-100k.zip",
        "ml-100k/",
        {"u.data": "196\t242\t3\t881250949\n22\t377\t1\t878887116\n196\t377\t5\t1\n"},
    ),
    "movielens-1m": (
        "ml-1m.zip",
        "ml-1m/",
        {"ratings.dat": "1::1193::5::978300760\n2::661::3::978302109\n", "movies.dat": "é"},
    ),
    "netflix": (
        "netflix-prize-data.zip",
        "",
        {
            "combined_data_1.txt": "1:\n30,3,2005-09-06\n10,5,2005-05-13\n2:\n30,4,2005-10-19\n",
            "combined_data_2.txt": "9:\n7,1,2005-01-01\n",
        },
    ),
    "lastfm": (
        "hetrec2011-lastfm-2k.zip",
        "",
        {
            "user_artists.dat": "userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t11690\r\n3\t52\t7\r\n",
            "user_friends.dat": "userID\tfriendID\n2\t3\n3\t2\n3\t9\n9\t3\n",
            "user_taggedartists.dat": "userID\tartistID\ttagID\tday\tmonth\tyear\n"
            "2\t52\t13\t1\t4\t2009\n3\t52\t13\t1\t4\t2009\n2\t51\t15\t1\t4\t2009\n2\t99\t15\t1\t4\t1956\n",
        },
    ),
    "delicious": (
        "hetrec2011-delicious-2k.zip",
        "",
        {
            "user_contacts.dat": "userID\tcontactID\t…\r\n8\t9\t4\t10\t2010\t2\t14\t19\r\n9\t8\t4\t10\t2010\t2\t14\t19\r\n",
            "user_taggedbookmarks.dat": "userID\tbookmarkID\ttagID\tday\tmonth\tyear\thour\tminute\tsecond\n" + TAGGED,
        },
    ),
    "ciao": (
        "ciao.zip",
        "ciao/",
        {
            "ratings.txt": "5 70 3\r\n5 71 4\r\n8 70 0\r\n9 72 5\r\n5 70 1\r\n",
            "trusts.txt": "5\t8\t1\n8\t5\t1\n9\t8\t1\n9\t9\t1\n9\t4\t1\n",
        },
    ),
}


def make_archive(name: str, folder: Path) -> Path:
    """Write the archive of a made-up data set into `folder`."""
    archive, inside, files = LAYOUTS[name]
    with zipfile.ZipFile(folder / archive, "w", zipfile.ZIP_DEFLATED) as file:
        for member, text in files.items():
            file.writestr(inside + member, text)
    return folder / archive


def make_folder(name: str, folder: Path) -> Path:
    """Write the unpacked files of a made-up data set, in a folder of the archive's name."""
    place = folder / Path(LAYOUTS[name][0]).stem
    place.mkdir()
    for member, text in LAYOUTS[name][2].items():
        (place / member).write_text(text, newline="")
    return place


def real(archive: str) -> Path:
    """Return the folder of the real data sets, or skip the test with a reason."""
    if not (REAL / archive).exists():
        pytest.skip(f"{archive} is not in {REAL}; set GRAPHBANDIT_DATA to the folder that has it")
    return REAL
