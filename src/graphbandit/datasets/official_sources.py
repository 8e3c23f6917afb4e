"""`DATASETS`: the address, checksum, licence, citation and loader of every known data set."""

from __future__ import annotations

from ..validate import check, one_of
from . import ciao, delicious, lastfm, movielens, netflix
from .source import Source

GROUPLENS = "https://files.grouplens.org/datasets"
MOVIELENS_LICENCE = "research only; no redistribution; no commercial use without permission (see README in the archive)"
MOVIELENS_CITATION = (
    "F. M. Harper and J. A. Konstan (2015). The MovieLens Datasets: History and Context. ACM TiiS 5(4), 19. doi:10.1145/2827872"
)
HETREC_LICENCE = "non-commercial use only (see readme.txt in the archive)"
HETREC_CITATION = (
    "I. Cantador, P. Brusilovsky and T. Kuflik (2011). 2nd Workshop on Information Heterogeneity and Fusion in Recommender "
    "Systems. RecSys 2011"
)

DATASETS: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="movielens-100k",
            title="MovieLens 100K: 100,000 ratings of 1,682 films by 943 users",
            url=f"{GROUPLENS}/movielens/ml-100k.zip",
            archives=("ml-100k.zip",),
            file=movielens.FILE_100K,
            sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            size=4_924_029,
            licence=MOVIELENS_LICENCE,
            citation=MOVIELENS_CITATION,
            load=movielens.load_100k,
        ),
        Source(
            name="movielens-1m",
            title="MovieLens 1M: 1,000,209 ratings of 3,706 films by 6,040 users",
            url=f"{GROUPLENS}/movielens/ml-1m.zip",
            archives=("ml-1m.zip",),
            file=movielens.FILE_1M,
            sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
            size=5_917_549,
            licence=MOVIELENS_LICENCE,
            citation=MOVIELENS_CITATION,
            load=movielens.load_1m,
        ),
        Source(
            name="netflix",
            title="Netflix prize: 100,480,507 ratings of 17,770 films by 480,189 users",
            url=None,
            archives=("netflix-prize-data.zip", "netflix-sample.zip", "netflix.zip"),
            file=netflix.FILE,
            sha256=None,
            size=None,
            licence="research only; no redistribution (terms of the Netflix prize)",
            citation="J. Bennett and S. Lanning (2007). The Netflix Prize. KDD Cup and Workshop 2007",
            load=netflix.load,
            page="https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
        ),
        Source(
            name="lastfm",
            title="Last.fm, HetRec 2011: 92,834 plays of 17,632 artists by 1,892 users, 12,717 friendships, tags",
            url=f"{GROUPLENS}/hetrec2011/hetrec2011-lastfm-2k.zip",
            archives=("hetrec2011-lastfm-2k.zip",),
            file=lastfm.FILE,
            sha256="6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
            size=None,
            licence=HETREC_LICENCE,
            citation=HETREC_CITATION,
            load=lastfm.load,
        ),
        Source(
            name="delicious",
            title="Delicious, HetRec 2011: 104,799 bookmarks of 69,226 pages by 1,867 users, 7,664 contacts, tags",
            url=f"{GROUPLENS}/hetrec2011/hetrec2011-delicious-2k.zip",
            archives=("hetrec2011-delicious-2k.zip",),
            file=delicious.FILE,
            sha256=None,
            size=None,
            licence=HETREC_LICENCE,
            citation=HETREC_CITATION,
            load=delicious.load,
        ),
        Source(
            name="ciao",
            title="Ciao: 282,650 ratings of 105,114 products by 7,375 users, 85,205 pairs of which one trusts the other",
            url=None,
            archives=("ciao.zip",),
            file=ciao.FILE,
            sha256=None,
            size=None,
            licence="none is stated; published for research",
            citation=(
                "J. Tang, H. Gao and H. Liu (2012). mTrust: Discerning Multi-Faceted Trust in a Connected World. WSDM 2012. "
                "doi:10.1145/2124295.2124309"
            ),
            load=ciao.load,
        ),
    )
}


def describe(name: str) -> Source:
    """Return address, licence, citation and loader of the data set with this name.

    >>> describe("lastfm").archives
    ('hetrec2011-lastfm-2k.zip',)
    """
    check("name", name, one_of(DATASETS))
    return DATASETS[name]
