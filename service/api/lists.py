"""Lists: which part of one is asked for, and how its answer leads to the next part."""

from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.api.fields import Moment, ShaPrefix, Text
from service.db import paging
from service.db.paging import Cursor, Page
from service.db.runs import RunFilter
from service.domain import Intent, Status, Verdict

Item = TypeVar("Item")


class PageQuery(BaseModel):
    """Which part of a list."""

    model_config = ConfigDict(extra="forbid")

    cursor: Text | None = Field(
        None, max_length=200, description="`next_cursor` of the part before; default: the newest."
    )
    limit: int = Field(50, ge=1, le=200, description="Most items of an answer.")

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, values: Any) -> Any:
        """A form sends a field that was left empty as an empty text."""
        blank = ("", [""])
        return {name: value for name, value in dict(values).items() if value not in blank}

    @property
    def place(self) -> Cursor | None:
        """Where the part begins. Raises Refused."""
        return None if self.cursor is None else paging.decode(self.cursor)


class RunQuery(PageQuery):
    """Which runs: those for which all of it holds."""

    project: Text | None = Field(None, description="Name of the project.")
    cluster: Text | None = Field(None, description="Name of the cluster.")
    status: list[Status] = Field([], description="May be repeated: any of these.")
    verdict: list[Verdict] = Field([], description="May be repeated: any of these.")
    intent: Intent | None = Field(None, description="What the run is for.")
    revision: ShaPrefix | None = Field(
        None, description="Sha of a commit of either side, or the beginning of it."
    )
    since: Moment | None = Field(None, description="Requested then or later.")
    until: Moment | None = Field(None, description="Requested before.")

    @property
    def which(self) -> RunFilter:
        """The filter the query stands for."""
        return RunFilter(
            project=self.project,
            cluster=self.cluster,
            intent=self.intent,
            statuses=self.status,
            verdicts=self.verdict,
            revision=self.revision,
            since=self.since,
            until=self.until,
        )


PageQueryDep = Annotated[PageQuery, Query()]
RunQueryDep = Annotated[RunQuery, Query()]


class Listing(BaseModel, Generic[Item]):
    """Part of a list, newest first; `next_cursor` leads on, null at the end."""

    items: Sequence[Item]
    next_cursor: str | None


def listing(page: Page[Item], request: Request, response: Response) -> Listing[Item]:
    """The page as it is answered; the response gets the link to the next one."""
    cursor = None if page.next is None else paging.encode(page.next)
    if cursor is not None:
        url = request.url.include_query_params(cursor=cursor)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    return Listing(items=page.items, next_cursor=cursor)
