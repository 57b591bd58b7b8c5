// An ordinary NestJS application. Usage: node nestjs_app.js PORT. Its document is the one that @nestjs/swagger makes.
import 'reflect-metadata';
import {
  Body, Controller, Delete, Get, Header, Headers, HttpCode, Module, NotFoundException, Param, ParseUUIDPipe, Patch, Post, Query, UploadedFile,
  UseInterceptors, ValidationPipe,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FileInterceptor } from '@nestjs/platform-express';
import {
  ApiBearerAuth, ApiBody, ApiConsumes, ApiCreatedResponse, ApiExtraModels, ApiHeader, ApiNoContentResponse, ApiNotFoundResponse, ApiOkResponse,
  ApiProperty, ApiPropertyOptional, ApiQuery, ApiSecurity, DocumentBuilder, OmitType, PartialType, SwaggerModule, getSchemaPath,
} from '@nestjs/swagger';
import { randomUUID } from 'node:crypto';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize, IsArray, IsDateString, IsEnum, IsIn, IsInt, IsNumber, IsOptional, IsString, Matches, Max, MaxLength, Min, MinLength, ValidateNested,
} from 'class-validator';

enum Kind { cat = 'cat', dog = 'dog' }

class Owner {
  @ApiProperty({ minLength: 1, maxLength: 40 }) @IsString() @MinLength(1) @MaxLength(40) name!: string;
  @ApiPropertyOptional({ format: 'email' }) @IsOptional() @IsString() mail?: string;
}

class Pet {
  @ApiProperty({ format: 'uuid', readOnly: true }) id!: string;
  @ApiProperty({ minLength: 1, maxLength: 40 }) @IsString() @MinLength(1) @MaxLength(40) name!: string;
  @ApiProperty({ enum: Kind, enumName: 'Kind' }) @IsEnum(Kind) kind!: Kind;
  @ApiProperty({ type: 'integer', minimum: 0, maximum: 40 }) @IsInt() @Min(0) @Max(40) age!: number;
  @ApiPropertyOptional({ type: [String], maxItems: 5, default: [] }) @IsOptional() @IsArray() @ArrayMaxSize(5) @IsString({ each: true }) tags?: string[];
  @ApiPropertyOptional({ type: String, nullable: true, maxLength: 200 }) @IsOptional() @IsString() note?: string | null;
  @ApiPropertyOptional({ type: Owner }) @IsOptional() @ValidateNested() @Type(() => Owner) owner?: Owner;
  @ApiProperty({ format: 'date-time', readOnly: true }) created!: string;
}

class NewPet extends OmitType(Pet, ['id', 'created'] as const) {}
class PetChange extends PartialType(NewPet) {}

class Card {
  @ApiProperty({ enum: ['card'] }) kind!: 'card';
  @ApiProperty({ pattern: '^tok_[0-9a-f]{8}$' }) token!: string;
}

class Transfer {
  @ApiProperty({ enum: ['transfer'] }) kind!: 'transfer';
  @ApiProperty({ minLength: 15, maxLength: 34 }) iban!: string;
}

@ApiExtraModels(Card, Transfer)
class Sale {
  @ApiProperty({ type: 'number', minimum: 0, exclusiveMinimum: true, multipleOf: 0.01 }) @IsNumber() amount!: number;
  @ApiProperty({ pattern: '^[A-Z]{3}$' }) @Matches(/^[A-Z]{3}$/) currency!: string;
  // No mapping, and names of schemas that are no values of `kind`: as most applications have it.
  @ApiProperty({ oneOf: [{ $ref: getSchemaPath(Card) }, { $ref: getSchemaPath(Transfer) }], discriminator: { propertyName: 'kind' } })
  payment!: Card | Transfer;
}

class Filter {
  @ApiPropertyOptional({ enum: Kind, enumName: 'Kind' }) kind?: Kind;
  @ApiPropertyOptional({ type: 'integer', minimum: 0 }) min_age?: number;
}

class Login {
  @ApiProperty({ minLength: 1 }) @IsString() @MinLength(1) user!: string;
  @ApiProperty({ minLength: 8, format: 'password' }) @IsString() @MinLength(8) password!: string;
  @ApiPropertyOptional({ enum: ['on'] }) @IsOptional() @IsIn(['on']) remember?: string;
}

class Said { @ApiProperty() said!: string; }
class Problem {
  @ApiProperty() message!: string;
  @ApiProperty() error!: string;
  @ApiProperty({ type: 'integer' }) statusCode!: number;
}

const PETS = new Map<string, Pet>();

@Controller('pets')
@ApiExtraModels(Filter)
class Pets {
  @Get()
  @ApiQuery({ name: 'limit', required: false, schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 } })
  @ApiQuery({ name: 'tags', required: false, type: [String] })
  @ApiQuery({ name: 'born_after', required: false, schema: { type: 'string', format: 'date' } })
  @ApiQuery({ name: 'filter', required: false, style: 'deepObject', explode: true, schema: { $ref: getSchemaPath(Filter) } })
  @ApiHeader({ name: 'X-Trace', required: false, schema: { type: 'string', pattern: '^[0-9a-f]{4,32}$' } })
  @ApiOkResponse({ type: [Pet] })
  list(@Query('limit') limit?: string, @Query('tags') tags?: string | string[], @Query('filter') filter?: Filter): Pet[] {
    const wanted = [tags ?? []].flat();
    const fits = (pet: Pet) => wanted.every((tag) => pet.tags?.includes(tag)) && (!filter?.kind || filter.kind === pet.kind);
    return [...PETS.values()].filter(fits).slice(0, Number(limit ?? 20));
  }

  @Post()
  @ApiBearerAuth()
  @ApiCreatedResponse({ type: Pet })
  add(@Body() pet: NewPet): Pet {
    const stored = { ...pet, id: randomUUID(), created: new Date().toISOString() };
    PETS.set(stored.id, stored);
    return stored;
  }

  @Get(':id')
  @ApiOkResponse({ type: Pet })
  @ApiNotFoundResponse({ type: Problem })
  one(@Param('id', ParseUUIDPipe) id: string): Pet {
    const pet = PETS.get(id);
    if (!pet) throw new NotFoundException('no such pet');
    return pet;
  }

  @Patch(':id')
  @ApiBearerAuth()
  @ApiOkResponse({ type: Pet })
  change(@Param('id', ParseUUIDPipe) id: string, @Body() change: PetChange): Pet {
    const pet = Object.assign(this.one(id), change);
    return pet;
  }

  @Delete(':id')
  @ApiSecurity('key')
  @HttpCode(204)
  @ApiNoContentResponse()
  gone(@Param('id', ParseUUIDPipe) id: string): void {
    PETS.delete(id);
  }
}

@Controller()
class Others {
  @Post('sales')
  @HttpCode(200)
  @ApiOkResponse({ type: Said })
  sale(@Body() sale: Sale): Said {
    return { said: `${sale.amount} ${sale.currency} by ${sale.payment.kind}` };
  }

  @Post('login')
  @HttpCode(200)
  @ApiConsumes('application/x-www-form-urlencoded')
  @ApiOkResponse({ type: Said })
  login(@Body() login: Login): Said {
    return { said: login.user };
  }

  @Post('pictures')
  @HttpCode(200)
  @ApiConsumes('multipart/form-data')
  @ApiBody({ schema: { type: 'object', required: ['title', 'picture'], properties: { title: { type: 'string', maxLength: 20 }, picture: { type: 'string', format: 'binary' } } } })
  @ApiOkResponse({ type: Said })
  @UseInterceptors(FileInterceptor('picture'))
  picture(@UploadedFile() picture: { size: number }, @Body('title') title: string): Said {
    return { said: `${title} ${picture.size}` };
  }

  @Get('report')
  @Header('content-type', 'text/csv')
  @ApiOkResponse({ content: { 'text/csv': { schema: { type: 'string' } } } })
  report(@Headers('accept') _accept: string): string {
    return 'a,b\n1,2\n';
  }
}

@Module({ controllers: [Pets, Others] })
class Application {}

async function main() {
  const app = await NestFactory.create(Application, { logger: ['error'] });
  // What @nestjs/swagger says of a query is to be read as such.
  app.getHttpAdapter().getInstance().set('query parser', 'extended');
  app.useGlobalPipes(new ValidationPipe());
  const about = new DocumentBuilder().setTitle('Pets').setVersion('1').addBearerAuth().addApiKey({ type: 'apiKey', in: 'header', name: 'X-Api-Key' }, 'key');
  SwaggerModule.setup('docs', app, SwaggerModule.createDocument(app, about.build()), { ui: false });
  await app.listen(Number(process.argv[2]), '127.0.0.1');
}
main();
