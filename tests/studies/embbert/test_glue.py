"""The three GLUE means reproduce published scores."""

import pytest

from lwt import errors
from studies.embbert import glue

BERT_LARGE = {  # the public leaderboard's row of BERT (24 layers); its score there is 80.5
    "cola": {"mcc": 60.5},
    "sst2": {"accuracy": 94.9},
    "mrpc": {"f1": 89.3, "accuracy": 85.4},
    "stsb": {"pearson": 87.6, "spearman": 86.5},
    "qqp": {"f1": 72.1, "accuracy": 89.3},
    "mnli_matched": {"accuracy": 86.7},
    "mnli_mismatched": {"accuracy": 85.9},
    "qnli": {"accuracy": 92.7},
    "rte": {"accuracy": 70.1},
    "wnli": {"accuracy": 65.1},
}
PRINTED = {  # EmbBERT-Q, tables 6 and 12: the ten columns, and the printed "Score"
    "EmbBERT": ([11.01, 79.33, 69.19, 83.25, 67.83, 68.63, 68.92, 49.96, 87.61, 49.25], 63.50),
    "EmbBERT-Q": ([9.56, 80.96, 67.99, 82.45, 67.10, 68.05, 68.06, 47.29, 87.32, 49.28], 62.81),
    "Embedder": ([9.65, 78.90, 62.25, 83.28, 62.06, 62.17, 65.40, 52.73, 77.20, 15.58], 56.92),
}


def printed(name, *, f1="f1"):
    wanted = {task: f1 if figure == "f1" else figure for task, figure in glue.COLUMNS.items()}
    return {task: {figure: value} for (task, figure), value in zip(wanted.items(), PRINTED[name][0])}


def test_the_official_rule_gives_the_leaderboards_score():
    assert round(glue.official(BERT_LARGE), 1) == 80.5
    assert round(glue.plain_mean(BERT_LARGE), 1) != 80.5


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("f1", ["f1", "f1_weighted"])
def test_the_papers_score_is_the_plain_mean(name, f1):
    assert glue.plain_mean(printed(name, f1=f1), f1=f1) == pytest.approx(PRINTED[name][1], abs=0.006)


def test_without_wnli():
    rows = printed("EmbBERT"), printed("EmbBERT-Q")
    assert [round(glue.mean_without_wnli(row), 2) for row in rows] == [60.82, 60.08]
    del rows[0]["wnli"]
    assert round(glue.mean_without_wnli(rows[0]), 2) == 60.82


@pytest.mark.parametrize("mean", [glue.official, glue.plain_mean, glue.mean_without_wnli])
def test_a_mean_has_the_unit_of_its_figures(mean):
    shares = {name: {figure: v / 100 for figure, v in row.items()} for name, row in BERT_LARGE.items()}
    assert mean(shares) == pytest.approx(mean(BERT_LARGE) / 100)


def test_missing_figures_are_named():
    with pytest.raises(errors.DataError, match="needs mrpc/accuracy, stsb/pearson, qqp/accuracy: evaluate"):
        glue.official(printed("EmbBERT"))
    with pytest.raises(errors.DataError, match="needs mrpc/f1_weighted, qqp/f1_weighted"):
        glue.columns(BERT_LARGE, f1="f1_weighted")
    with pytest.raises(errors.DataError, match="evaluated so far: none"):
        glue.plain_mean({})
    with pytest.raises(errors.DataError, match="rte/accuracy=nan"):
        glue.official(BERT_LARGE | {"rte": {"accuracy": float("nan")}})
