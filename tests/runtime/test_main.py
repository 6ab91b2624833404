import pytest

from kvasir_runtime.__main__ import main


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_the_commands(capsys, arguments):
    assert main(arguments) == 0
    assert "serve" in capsys.readouterr().out


def test_the_version_is_that_of_the_distribution(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kvasir-runtime 0.")


def test_an_unknown_command_is_named(capsys):
    assert main(["sevre"]) == 2
    assert "'sevre'" in capsys.readouterr().err
