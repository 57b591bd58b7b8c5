"""An ordinary FastAPI application. Usage: fastapi_app.py PORT. Its document is the one that FastAPI makes."""

import datetime
import decimal
import enum
import sys
import uuid
from typing import Annotated

import uvicorn
from fastapi import Cookie, FastAPI, File, Form, Header, HTTPException, Query, UploadFile
from pydantic import BaseModel, Field

app = FastAPI(title="Shop", version="1")


class Kind(str, enum.Enum):
    book = "book"
    toy = "toy"


class Price(BaseModel):
    amount: decimal.Decimal = Field(max_digits=8, decimal_places=2, gt=0)
    currency: str = Field(pattern="^[A-Z]{3}$")


class Item(BaseModel):
    name: str = Field(min_length=1, max_length=40)
    kind: Kind = Kind.book
    price: Price
    tags: list[str] = []
    note: str | None = None
    released: datetime.date | None = None


class Stored(Item):
    id: uuid.UUID
    created: datetime.datetime


ITEMS: dict[uuid.UUID, Stored] = {}


@app.get("/items")
def listed(
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    tags: Annotated[list[str] | None, Query()] = None,
    kind: Kind | None = None,
    since: datetime.datetime | None = None,
    trace: Annotated[str | None, Header()] = None,
    session: Annotated[str | None, Cookie()] = None,
) -> list[Stored]:
    found = [item for item in ITEMS.values() if kind in (None, item.kind) and set(tags or []) <= set(item.tags)]
    return found[:limit]


@app.post("/items", status_code=201)
def add(item: Item, api_key: Annotated[str, Header(convert_underscores=False)]) -> Stored:
    if api_key != "secret":
        raise HTTPException(403, "not you")
    stored = Stored(**item.model_dump(), id=uuid.uuid4(), created=datetime.datetime.now(datetime.UTC))
    ITEMS[stored.id] = stored
    return stored


@app.get("/items/{number}", responses={404: {"description": "Not here"}})
def one(number: uuid.UUID) -> Stored:
    if number not in ITEMS:
        raise HTTPException(404, "not here")
    return ITEMS[number]


@app.delete("/items/{number}", status_code=204)
def gone(number: uuid.UUID) -> None:
    ITEMS.pop(number, None)


@app.post("/form")
def form(name: Annotated[str, Form(max_length=20)], age: Annotated[int, Form(ge=0)] = 0) -> dict[str, str]:
    return {"said": f"{name} {age}"}


@app.post("/upload")
async def upload(picture: Annotated[UploadFile, File()], title: Annotated[str, Form()]) -> dict[str, int]:
    return {title: len(await picture.read())}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
