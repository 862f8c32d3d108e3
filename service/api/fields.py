"""Kinds of values that several bodies and queries take."""

from typing import Annotated

from pydantic import Field

# PostgreSQL stores no NUL, and no argument vector holds one.
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Revision = Annotated[str, Field(min_length=1, max_length=250, pattern=r"^[^-\s][^\s\x00]*$")]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
